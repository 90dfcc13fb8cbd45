"""The routes under /api/v1, one module for each resource."""

from fastapi import APIRouter

from ordrank.web.routes import collection, pictures, queries, training

router = APIRouter()
for resource in (collection, pictures, queries, training):
    router.include_router(resource.router)
