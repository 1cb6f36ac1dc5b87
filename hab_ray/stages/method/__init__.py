"""The six steps of the method, a page for each; the package above lists them."""
