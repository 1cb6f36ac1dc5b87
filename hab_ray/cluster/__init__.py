"""The executor on Ray: the only package that imports Ray. Pipelines feed lanes, and lanes run the online engine."""
