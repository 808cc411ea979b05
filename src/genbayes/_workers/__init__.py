"""What runs in other processes: draws of a simulator, in the light of NumPy alone.

Nothing here imports JAX, so that workers start fast and stay small.
"""

from ._batch import Recipe as Recipe
from ._batch import draw_batch as draw_batch
from ._batch import portable as portable
from ._crew import Crew as Crew
from ._crew import Lost as Lost
from ._crew import WorkerLost as WorkerLost
from ._draw import NOT_FINITE as NOT_FINITE
from ._draw import Failed as Failed
from ._draw import Rows as Rows
from ._draw import Seeded as Seeded
from ._draw import Theta as Theta
from ._parent import end_with_parent as end_with_parent
from ._program import Program as Program
from ._spread import Spread as Spread
