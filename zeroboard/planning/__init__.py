"""From a wish to a plan: the spec read and checked, the model's facts, the rules, and the one function that decides."""
