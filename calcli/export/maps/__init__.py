"""How each family of methods is computed; a module registers its classes with ``lower``."""
