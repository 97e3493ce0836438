"""Records of what people and tokens may do beside the judge's rights: which payloads they see, which tokens exist."""
