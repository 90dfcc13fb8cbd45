"""The routes under /api/v1, one module for each resource."""

from fastapi import APIRouter

from ordrank.web.routes import collection, comparisons, pictures, queries, selection, suggestions, training

router = APIRouter()
for resource in (collection, comparisons, pictures, queries, selection, suggestions, training):
    router.include_router(resource.router)
