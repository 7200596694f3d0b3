"""The census: what the product's own reduction does to every result that a dataset holds."""
