"""Why was it decided so? Halting scores, class probabilities and looks of one sequence, as text and as a picture.

Training comes first: half a minute or so on two cores.
"""

import kvec
from kvec.report.canvas import save
from kvec.report.portrait import draw_explanation

schema = kvec.synthetic.DEMO_SCHEMA
model = kvec.KVEC(schema=schema, epochs=4).fit(kvec.synthetic.demo_traffic(120, seed=0))

unseen = kvec.synthetic.demo_traffic(4, seed=1)
surest = max(model.decide(unseen), key=lambda decision: decision.probability)
explanation = model.explain(unseen, surest.key, surest.tangle)
print(explanation)
save(draw_explanation(explanation), "why.svg")
