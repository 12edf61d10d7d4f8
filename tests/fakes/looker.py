"""Looks at many scripted machines in one process, through the real binding, for a test that has the results read.

One JSON object a line comes in (`script`: the file; `looks`: how many; `between`: a text that the file is replaced by
after the first look) and one goes out: a list with what each look told.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from zeroboard.monitor.nvml import Eyes

if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ["FAKE_NVML"] = asked["script"]
        told = []
        with Eyes() as eyes:
            for number in range(asked["looks"]):
                told.append(eyes.look().model_dump(mode="json"))
                if number == 0 and asked.get("between") is not None:
                    fresh = Path(asked["script"] + ".new")
                    fresh.write_text(asked["between"])
                    fresh.replace(asked["script"])
        print(json.dumps(told), flush=True)
