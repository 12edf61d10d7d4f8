"""The look: Gradio's base theme on our own variables. Colours and shapes stand in `assets/theme.css` alone."""

from __future__ import annotations

import gradio as gr

from zeroboard.paths import ASSETS

STYLESHEET = ASSETS / "theme.css"
SCRIPT = ASSETS / "page.js"
LOGO = ASSETS / "logo.svg"

SANS = (
    "system-ui",
    "-apple-system",
    "Segoe UI",
    "Roboto",
    "Noto Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "Noto Sans CJK SC",
    "sans-serif",
)
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "Noto Sans Mono CJK SC", "monospace")

_VARIABLES = {
    "body_background_fill": "var(--zb-page)",
    "background_fill_primary": "var(--zb-surface)",
    "background_fill_secondary": "var(--zb-page)",
    "body_text_color": "var(--zb-ink)",
    "body_text_color_subdued": "var(--zb-dim)",
    "border_color_primary": "var(--zb-line)",
    "border_color_accent": "var(--zb-accent)",
    "color_accent": "var(--zb-accent)",
    "color_accent_soft": "var(--zb-accent-soft)",
    "link_text_color": "var(--zb-accent)",
    "link_text_color_hover": "var(--zb-accent-strong)",
    "link_text_color_visited": "var(--zb-accent)",
    "link_text_color_active": "var(--zb-accent-strong)",
    "block_background_fill": "transparent",
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_padding": "0px",
    "block_radius": "6px",
    "block_label_background_fill": "transparent",
    "block_label_text_color": "var(--zb-ink)",
    "block_title_text_color": "var(--zb-ink)",
    "block_title_text_weight": "600",
    "block_title_text_size": "13px",
    "block_info_text_color": "var(--zb-dim)",
    "block_info_text_size": "12px",
    "panel_background_fill": "transparent",
    "panel_border_width": "0px",
    "section_header_text_size": "13px",
    "input_background_fill": "var(--zb-field)",
    "input_background_fill_focus": "var(--zb-field)",
    "input_border_color": "var(--zb-edge)",
    "input_border_color_focus": "var(--zb-accent)",
    "input_border_width": "1px",
    "input_padding": "6px 8px",
    "input_radius": "6px",
    "input_shadow": "none",
    "input_shadow_focus": "0 0 0 2px var(--zb-accent-soft)",
    "input_text_size": "14px",
    "input_placeholder_color": "var(--zb-dim)",
    "checkbox_background_color": "var(--zb-field)",
    "checkbox_background_color_selected": "var(--zb-accent)",
    "checkbox_border_color": "var(--zb-edge)",
    "checkbox_border_color_selected": "var(--zb-accent)",
    "checkbox_label_background_fill": "var(--zb-field)",
    "checkbox_label_background_fill_hover": "var(--zb-hover)",
    "checkbox_label_background_fill_selected": "var(--zb-accent-soft)",
    "checkbox_label_border_color": "var(--zb-edge)",
    "checkbox_label_border_color_selected": "var(--zb-accent)",
    "checkbox_label_text_color": "var(--zb-ink)",
    "checkbox_label_text_color_selected": "var(--zb-ink)",
    "checkbox_label_padding": "5px 10px",
    "checkbox_label_shadow": "none",
    "button_primary_background_fill": "var(--zb-accent)",
    "button_primary_background_fill_hover": "var(--zb-accent-strong)",
    "button_primary_text_color": "var(--zb-on-accent)",
    "button_primary_text_color_hover": "var(--zb-on-accent)",
    "button_primary_border_color": "var(--zb-accent)",
    "button_primary_shadow": "none",
    "button_secondary_background_fill": "var(--zb-field)",
    "button_secondary_background_fill_hover": "var(--zb-hover)",
    "button_secondary_text_color": "var(--zb-ink)",
    "button_secondary_border_color": "var(--zb-edge)",
    "button_secondary_shadow": "none",
    "button_cancel_background_fill": "var(--zb-field)",
    "button_cancel_background_fill_hover": "var(--zb-bad-soft)",
    "button_cancel_text_color": "var(--zb-bad)",
    "button_cancel_border_color": "var(--zb-bad)",
    "button_large_radius": "6px",
    "button_large_padding": "8px 16px",
    "button_large_text_size": "14px",
    "button_large_text_weight": "600",
    "button_medium_radius": "6px",
    "button_medium_padding": "6px 12px",
    "button_small_radius": "6px",
    "button_transition": "none",
    "layout_gap": "12px",
    "form_gap_width": "0px",
    "table_border_color": "var(--zb-line)",
    "table_even_background_fill": "transparent",
    "table_odd_background_fill": "transparent",
    "error_background_fill": "var(--zb-bad-soft)",
    "error_border_color": "var(--zb-bad)",
    "error_text_color": "var(--zb-bad)",
    "loader_color": "var(--zb-accent)",
    "code_background_fill": "var(--zb-code)",
}


def theme() -> gr.themes.Base:
    """The theme; no font is fetched. The dark set is the same: the stylesheet changes what the variables mean."""
    base = gr.themes.Base(
        font=SANS, font_mono=MONO, text_size="sm", spacing_size="sm", radius_size="sm", neutral_hue="slate"
    )
    dark = {f"{name}_dark": value for name, value in _VARIABLES.items() if hasattr(base, f"{name}_dark")}
    return base.set(**_VARIABLES, **dark)


def head(base: str) -> str:
    """What goes into the page's head: our one script, and the icon."""
    script = SCRIPT.read_text(encoding="utf-8")
    return f'<script>{script}</script><link rel="icon" type="image/svg+xml" href="{base}/logo.svg">'


def logo() -> str:
    return LOGO.read_text(encoding="utf-8")
