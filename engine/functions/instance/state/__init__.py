"""The state of a function: registers in a topic of its own, which every instance follows into a local store.

Each change is a message of the topic, so that the topic's order is the order of changes for all instances, and the loss
of a worker loses nothing. A register has one value, the last in that order. A counter is the sum of one register for
each instance that counts, which that instance alone writes, so that no increment is lost however many count.
"""
