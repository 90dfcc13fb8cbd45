"""Parts of OrdinalMetric: fit, training_data, design, model_selection, cross_validation, solve and embedding."""
