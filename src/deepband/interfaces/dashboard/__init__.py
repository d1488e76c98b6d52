"""A live page of studies: it looks, and changes nothing."""
