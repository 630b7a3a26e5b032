-- token_bucket: L per W, burst B.
--
-- KEYS   one
-- Term   2, flags, and then as in gcra.lua (or 9 and as in gcra_wide.lua)
-- State  the instant at which the bucket will be full again: the arrival time of gcra.lua
--
-- A level of n tokens and that instant are the same fact, tokens = B - (TAT - t)*L/W, so it decides as gcra does.

define[2] = define[GCRA]
