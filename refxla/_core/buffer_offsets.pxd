# The contract of the memory planner is one function, `assign`, which is called from Python once for each plan.
