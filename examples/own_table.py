"""A table of your own: items and labels in two pandas tables, several keys side by side, decisions as a table again."""

import numpy as np
import pandas as pd

import kvec

# Visits to a shop: who did what, when. Buyers compare before they buy; the others wander about.
rng = np.random.default_rng(0)
visitors = pd.DataFrame({"visitor": np.arange(240), "buys": rng.choice(["yes", "no"], 240)})
pages = {
    "yes": ["search", "product", "product", "compare", "basket"],
    "no": ["home", "search", "product", "help", "home"],
}
items = pd.DataFrame([
    {"day": who // 8, "visitor": who, "second": 30 * step + rng.exponential(20), "page": rng.choice(pages[buys])}
    for who, buys in visitors.itertuples(index=False)
    for step in range(rng.integers(4, 12))
])  # fmt: skip

schema = {"key": "visitor", "tangle": "day", "time": "second", "values": ["page"], "session": "page", "label": "buys"}
model = kvec.KVEC(schema=schema, width=32, fusion=32, epochs=6).fit(items, labels=visitors)

decisions = model.decision_frame(items).to_pandas()
decisions = decisions.merge(visitors, left_on="key", right_on="visitor")
right = (decisions["label"] == decisions["buys"]).mean()
read = (decisions["n_observed"] / decisions["length"]).mean()
print(
    decisions[["tangle", "key", "label", "probability", "n_observed", "length", "reason"]].head().to_string(index=False)
)
print(f"{right:.0%} of the visitors are told right after {read:.0%} of their visit")
