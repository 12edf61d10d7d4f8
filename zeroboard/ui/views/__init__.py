"""Views: pure functions from a value to HTML, in a language. They know no Gradio, and everything is escaped."""
