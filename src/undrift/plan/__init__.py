"""Who takes part in a round, with how many local steps, and who answers.

A plan is data: for a range of rounds it is drawn on the host as three arrays (members, their τ_i, whether they answer) that
every interpreter reads. A draw depends on (seed, round, client) and on nothing else.

A client that does not answer is silent for the whole round: it is told the round's first message, and nothing of it changes,
neither its own memory nor its slot at the server; means run over those that answered. If nobody answers, the server keeps
its memory too.

*Weights.* f = Σ w_i f_i, and what a cohort S sends must be worth what all would send, in expectation. Where every client is as
likely as any other (`uniform`, `permuted`, and a `rule` that is fair in the long run) an answer counts m·w_i/|S|; where members
are drawn in proportion to w_i (`weighted`) it counts 1/|S|. `renormalise=True` takes w_i/Σ_S w_j instead, the ratio that many
frameworks use: with unequal weights it is biased, and the method then ends at another point. |S| counts those that answered.
Where clients play in turn there is no mean, and the factor m·w_i (none with `weighted` and with `renormalise`) scales
their steps. Before round 1 all m clients are asked, and their answers count w_i.

*Availability.* A trace says who is there in which round (`availability`). Who is not there cannot be drawn, or is drawn and
stays silent; an answer counts the same in both. Expectations are then over cohorts of those that are there: what is unbiased
without a trace is so with one only where the trace is fair to all clients in the long run.
"""

from ..absences import Absences as Absences
from ..absences import Draw as Draw
from .availability import Availability as Availability
from .availability import availability as availability
from .cohorts import Everyone as Everyone
from .cohorts import Participation as Participation
from .cohorts import Permuted as Permuted
from .cohorts import Rule as Rule
from .cohorts import Uniform as Uniform
from .cohorts import Weighted as Weighted
from .cohorts import full as full
from .cohorts import permuted as permuted
from .cohorts import rule as rule
from .cohorts import takes_all as takes_all
from .cohorts import uniform as uniform
from .cohorts import weighted as weighted
from .drawing import Plan as Plan
from .drawing import trace as trace
from .steps import ChangingSteps as ChangingSteps
from .steps import GeometricSteps as GeometricSteps
from .steps import PiecewiseSteps as PiecewiseSteps
from .steps import RandomSteps as RandomSteps
from .steps import ScheduledSteps as ScheduledSteps
from .steps import Steps as Steps
from .steps import geometric_steps as geometric_steps
from .steps import piecewise_steps as piecewise_steps
from .steps import probability as probability
from .steps import random_steps as random_steps
from .steps import scheduled_steps as scheduled_steps
from .user import Choice as Choice
