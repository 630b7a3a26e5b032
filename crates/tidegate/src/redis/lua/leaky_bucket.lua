-- leaky_bucket: L per W, queue Q.
--
-- KEYS   one
-- Term   3, flags, and then as in gcra.lua (or 9 and as in gcra_wide.lua) with a burst of Q + 1
-- State  the instant at which the next unit could leave: the arrival time of gcra.lua
--
-- The units that wait at t number ceil((TAT - t)*L/W) - 1, so c more fit if gcra with a burst of Q + 1 admits them. How
-- long each is held is worked out by the caller.

define[3] = define[GCRA]
