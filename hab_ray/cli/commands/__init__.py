"""One module for each command of `hab`: what it does, loaded when it is given."""
