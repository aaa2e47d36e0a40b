"""Methods to compare with: each file binds ``METHOD``, as those in ``calcli/methods`` do."""
