"""Function calls as models write them: a table of formats, their parser, their grammar."""
