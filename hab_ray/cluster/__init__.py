"""Ray: the only package that imports it. Pipelines feed lanes, lanes run the online engine, clustering fans out."""
