"""What runs inside the training image in Replace mode: Python 3.8, standard library and torch only."""
