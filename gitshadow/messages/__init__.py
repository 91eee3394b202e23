"""What a verb is asked and what it answers: typed values, and one codec for their JSON.

Each module has the requests, answers and rows of one feature. The field names are the names of
the JSON contract, so a field is added, never renamed. Paths are lossless display text, times are
RFC 3339 in UTC with microseconds, modes are six octal digits.
"""
