"""Exact posteriors, reusable laws and broken samplers that the statistical tests share."""
