"""A Jinja sandbox whose templates can spend a bounded amount of work, and nothing more.

Templates come with model files, and what they are rendered with comes from callers; both may be
hostile. So all that a template does is charged to the render's `Meter` in units of work: loops and
macros by the prices of what is in their bodies; whatever makes or reads a text or a list, by its
length. What can make more than it is given (`*`, `%`, `replace`, `join`, ...) is charged for its
result before it runs; `tojson` too, but for values of the request. Filters and methods that are
not listed in `filters` and `environment` do not exist.
"""
