"""A plan for a private training: what can be measured on public records before it."""

__all__: list[str] = []
