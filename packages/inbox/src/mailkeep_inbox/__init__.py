"""The embeddable inbox. So far it holds the migration runner, which the service uses too."""
