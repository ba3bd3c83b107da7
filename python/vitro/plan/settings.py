"""What a planner assumes where neither device nor profile says it."""
BATCHES = (1, 2, 3, 4)   # sizes with graphs of their own (PowerInfer-2, section 5)
PREFILL_ROWS = 64        # of a prefill that is timed
CONTEXT = 256            # positions that attention is balanced for, unless the model has fewer
STEPS_OF_A_BATCH = 64    # for so many steps a batch keeps its size: the least that pays for reading new hot clusters
PROFILE_TOKENS = 192     # of each drawn sequence; half of it is the longest time between two uses that is told apart
LARGEST_STAGING = 64 * 2 ** 20
# Beyond the best hot share is a cliff, where cold neurons no longer stay from one use to the next; before it is a slope.
ENGINE = {"policy": "neuron_cluster", "function": "draw"}  # what plans are for; nothing is computed to make one
CLIFF = 0.03             # where neurons are read, shares as good as that are alike, and the smallest is taken
STREAM_GAIN = 0.02       # of a layer's FFN, below which reading hot neurons for every step, at its energy, is not worth it (assumed)
