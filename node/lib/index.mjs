// One copy of everything for both worlds: `instanceof` works whichever way a module was loaded.
import fairlock from './index.js'

export default fairlock
export const {
  AuthenticationError,
  Client,
  ClosedError,
  ConnectionError,
  FairlockError,
  InvalidOptionError,
  Lease,
  LeaseBrokenError,
  Leases,
  Lock,
  LockLostError,
  MissingRightError,
  NotTakenError,
  Place,
  QueueFullError,
  RefusedError,
  ReleaseUnknownError,
  RwLock,
  TimeoutError,
  UnavailableError,
  connect,
} = fairlock
