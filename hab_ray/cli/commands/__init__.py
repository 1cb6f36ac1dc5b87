"""One module for each command of `hab`, in folders by what it is for: what it does, loaded when it is given."""
