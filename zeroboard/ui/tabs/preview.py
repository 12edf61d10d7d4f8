"""Preview: what Start will run, byte for byte, from the plan that was written."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
import yaml
from markupsafe import Markup

from zeroboard.contract.plan import Plan
from zeroboard.contract.spec import RunSpec
from zeroboard.planning.specs import parse_spec, spec_yaml
from zeroboard.services.alternatives import all_others
from zeroboard.services.preflight import preflight
from zeroboard.ui import form
from zeroboard.ui.desk import Desk, Written
from zeroboard.ui.views import checks as checks_view
from zeroboard.ui.views import preview as view
from zeroboard.ui.views.difference import difference
from zeroboard.ui.views.markup import tag
from zeroboard.ui.views.plan import changed
from zeroboard.ui.wiring import Changes, html


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewTab:
    """The tab's components, and what is shown in them."""

    desk: Desk
    stale: gr.HTML
    """Says that the form has changed since."""
    go: gr.Row
    """Holds the button that starts; there once something was previewed."""
    start: gr.Button
    why: gr.HTML
    """What the button does, or why it is disabled."""
    page: gr.HTML

    @property
    def outputs(self) -> list[Any]:
        return [self.desk.written, self.stale, self.page, self.go, self.start, self.why]

    def show(self, plan: Plan, spec: RunSpec, written: Written) -> Changes:
        """The changes that show a plan; a check that fails now bars its start until it is previewed again."""
        state = self.desk.shared.snapshot(plan.run_id or "").state.state
        words = self.desk.say(f"ui.state.{state}")
        host, lang = self.desk.shared.host.get(), self.desk.lang
        found = preflight(self.desk.paths, plan, spec, host=host).checks
        failed = sum(check.verdict == "fail" for check in found)
        shown = view.page(
            plan,
            lang,
            words,
            base=self.desk.base,
            failed=failed,
            differs=self._differs(plan, spec),
            checks=checks_view.checks(found, lang),
            alternatives=checks_view.alternatives(all_others(plan, spec, host), lang),
        )
        return {
            self.desk.written: replace(written, failed=failed),
            self.page: html(shown),
            self.stale: "",
            self.go: gr.update(visible=True),
            self.start: gr.update(interactive=not failed),
            self.why: html(checks_view.barred(failed, lang)),
        }

    def _differs(self, plan: Plan, spec: RunSpec) -> Markup:
        """Against the last run that was started and whose settings can be read."""
        for run in self.desk.shared.runs.get():
            if run.id == plan.run_id or run.state == "planned":
                continue
            before = spec_of(self.desk.plan_of(run.id))
            if before is not None:
                return difference(before, spec, run.name or run.id, self.desk.lang)
        return difference(None, spec, "", self.desk.lang)

    def stale_notice(self, written: Written | None, spec: RunSpec) -> str:
        """A sentence where the form is another than the one that was written; else nothing."""
        if written is None or written.stamp == form.stamp(spec):
            return ""
        before = spec_of(self.desk.plan_of(written.run_id))
        differs = changed(before, spec, self.desk.lang) if before is not None else []
        return html(view.stale(self.desk.lang, differs))

    def save_link(self, spec: RunSpec) -> str:
        """The spec as a file, in the link itself: the same file that the command line takes."""
        data = base64.b64encode(spec_yaml(spec).encode()).decode()
        return str(
            tag(
                "a",
                self.desk.say("ui.button.save"),
                href=f"data:application/yaml;base64,{data}",
                download="zeroboard-spec.yaml",
                class_="zb-link",
            )
        )


def build(desk: Desk) -> PreviewTab:
    """The components."""
    stale = gr.HTML(elem_id="zb-stale")
    with gr.Row(visible=False, elem_classes=["zb-actions", "zb-preview-go"]) as go:
        start = gr.Button(
            desk.say("ui.button.start"), variant="primary", elem_id="zb-preview-start", scale=0, min_width=140
        )
        why = gr.HTML(html(checks_view.barred(0, desk.lang)), elem_id="zb-preview-why")
    page = gr.HTML(html(view.nothing(desk.lang)), elem_id="zb-preview-page")
    return PreviewTab(desk=desk, stale=stale, go=go, start=start, why=why, page=page)


def spec_of(plan: Plan | None) -> RunSpec | None:
    """The spec that a plan was made from, read back from its own file."""
    content = plan.files.get("spec.yaml") if plan is not None else None
    return parse_spec(yaml.safe_load(content))[0] if content else None
