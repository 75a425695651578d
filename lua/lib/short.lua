-- short: packs the state of a calm lock, that is taken, or was taken last, by the id whose entry is in `field`.
-- NEEDS: epoch stamp now skew grants longest longest_next recover_from ttl_until field beyond
-- SETS: numbers
numbers = struct.pack(CALM, VERSION, 1, epoch, stamp, now, skew, grants, longest, longest_next, recover_from, ttl_until,
  #field, field) .. beyond
