"""Views: what each template shows, as dataclasses of finished texts."""
