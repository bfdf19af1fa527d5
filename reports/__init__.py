"""What people read: trace readers, accept-length analysis, and the text, JUnit, Markdown and HTML writers."""
