"""SVG figures of a page.

Colours and widths of lines are CSS classes, so that one figure serves light, dark and
print.
"""
