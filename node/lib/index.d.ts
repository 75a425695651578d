/// <reference lib="esnext.disposable" />

/** Times are milliseconds. Tokens and tickets are microseconds since 1970: numbers are exact until the year 2255. */

export interface ClientOptions {
  /** `redis://127.0.0.1/` by default; `rediss://` for TLS, `unix:///run/redis.sock`, Sentinel and clusters as in the guide. */
  url?: string
  sentinels?: string[]
  master?: string
  /** Some nodes of a cluster. */
  nodes?: string[]
  user?: string
  password?: string
  /** Read before each login. */
  passwordFile?: string
  /** Asked before each login. `expiresIn`: for how long the password is good. */
  credentials?: () => Credentials | Promise<Credentials>
  tls?: boolean
  caFile?: string
  certificateFile?: string
  keyFile?: string
  /** Of the keys of all locks, `fairlock` by default. */
  prefix?: string
  /** What others see of the locks of this client, `host:pid` by default. */
  label?: string
}

export interface Credentials {
  user?: string
  password: string
  expiresIn?: number
}

export interface LockOptions {
  /** How many may hold the lock together, 1 by default, up to 1000. */
  slots?: number
  /** The length of a lease, 30 s by default. The client renews it until it is released. */
  lease?: number
  renewEvery?: number
  /** Leases end unless the program calls {@link Lease.renew}. */
  manualRenewal?: boolean
  /** How long before its end a lease that cannot be renewed is lost. */
  notice?: number
  /** After how long a silent client is taken for dead, 10 s by default. */
  liveness?: number
  buffer?: number
  /** The longest time for which a lease is renewed. */
  maxHold?: number
  /** A grant is confirmed by a round trip before it is handed out. */
  confirmGrants?: boolean
  /** An acquire fails at once if so many wait. */
  maxWaiting?: number
  owner?: string
  label?: string
  /** How many replicas must have a grant before it counts. */
  replicas?: number
}

export interface AcquireOptions {
  /** How long it waits; for ever by default. */
  timeout?: number
  /** Gives up the place in the queue. The promise is rejected with `signal.reason`. */
  signal?: AbortSignal
  label?: string
  owner?: string
}

export class Client implements AsyncDisposable {
  /** A client that connects when it is first used. */
  constructor(url?: string | URL | ClientOptions, options?: Omit<ClientOptions, 'url'>)
  /** The server that `REDIS_URL` names, or the variables of the guide. It connects when it is first used. */
  static fromEnv(options?: Omit<ClientOptions, 'url'>): Client
  lock(name: string, options?: LockOptions): Lock
  /** A lock that `slots` may hold together. */
  semaphore(name: string, slots: number, options?: Omit<LockOptions, 'slots'>): Lock
  rwLock(name: string, options?: Omit<LockOptions, 'slots'>): RwLock
  /** Acquires several locks, one after the other in the order of their names. Those that are given by name are held alone. */
  lockAll(locks: (string | Lock)[], options?: AcquireOptions): Promise<Leases>
  /** Releases all leases, leaves all queues, and ends the client. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** A client that is connected. */
export function connect(url?: string | URL | ClientOptions, options?: Omit<ClientOptions, 'url'>): Promise<Client>

export class Lock {
  private constructor()
  readonly name: string
  readonly slots: number
  readonly lease: number
  readonly owner: string
  readonly label: string
  /** Waits for its turn. */
  acquire(options?: AcquireOptions): Promise<Lease>
  /** A lease if the lock is free and nobody waits, otherwise null. */
  tryAcquire(options?: AcquireOptions): Promise<Lease | null>
  /** Runs a job under a lease, which is released when the job has ended. */
  run<T>(job: (lease: Lease) => T | PromiseLike<T>): Promise<T>
  run<T>(options: AcquireOptions | undefined, job: (lease: Lease) => T | PromiseLike<T>): Promise<T>
  /** Takes a place in the queue: {@link Place.granted} waits for the grant. */
  enqueue(options?: AcquireOptions): Promise<Place>
  /** Who holds the lock and who waits. */
  inspect(): Promise<LockState>
  /** Ends a lease: its holder is told. With `force` it ends at once, for a holder that is dead. */
  break(token: number, options?: { force?: boolean }): Promise<Broken>
  history(count?: number): Promise<History>
  recordHistory(on: boolean): Promise<void>
  /** Ends the wait after a loss of data. */
  endRecovery(): Promise<boolean>
  /** What keeps the client from the server at the moment. */
  trouble(): Promise<string | null>
}

export class RwLock {
  private constructor()
  readonly name: string
  readonly reader: Lock
  readonly writer: Lock
  read(options?: AcquireOptions): Promise<Lease>
  tryRead(options?: AcquireOptions): Promise<Lease | null>
  write(options?: AcquireOptions): Promise<Lease>
  tryWrite(options?: AcquireOptions): Promise<Lease | null>
  inspect(): Promise<LockState>
  break(token: number, options?: { force?: boolean }): Promise<Broken>
}

declare class Held implements AsyncDisposable {
  protected constructor()
  /** What is left unless it is renewed. */
  readonly remaining: number
  /** Is aborted when the lease is lost, with a {@link LockLostError} as its reason; not by a release. */
  readonly signal: AbortSignal
  /** Throws a {@link LockLostError} unless the lease is held. No round trip: call it before each step that matters. */
  check(): void
  /** Waits for the answer of the server. Nothing if it was released before. */
  release(): Promise<void>
  /** Releases, and waits a second at most. Throws a {@link LockLostError} unless {@link check} or {@link signal} has told of it. */
  [Symbol.asyncDispose](): Promise<void>
}

export class Lease extends Held {
  private constructor()
  readonly name: string
  /** Rises with every grant: pass it to stores that refuse lower ones (of a semaphore, than those of the same slot). */
  readonly token: number
  /** Which of the slots it has, from 0 on, and nobody else has meanwhile. */
  readonly slot: number
  /** How many may hold the lock together while this lease lasts. */
  readonly slots: number
  readonly ticket: number
  readonly id: string
  readonly owner: string
  readonly label: string
  /** The length of the lease. */
  readonly lease: number
  readonly grantedAt: Date
  readonly waited: number
  /** Needed with `manualRenewal` only. */
  renew(): Promise<void>
  /** Moves the end of the lease by this time. */
  extend(additional: number): Promise<void>
  /** A writer becomes a reader, and lets others read. */
  downgrade(): Promise<void>
  /** Whether the server says that this lease holds the lock. */
  verify(): Promise<boolean>
  /** The next renewal, with what is left of the lease then. */
  renewed(): Promise<number>
}

/** Several locks that are held together. */
export class Leases extends Held {
  private constructor()
  readonly tokens: Record<string, number>
  readonly slotOf: Record<string, number>
}

/** A place in a queue. */
export class Place implements AsyncDisposable {
  private constructor()
  readonly ticket: number
  /** 1 for the next one, 0 if it waits no longer. */
  position(): Promise<number>
  /** Each position that is seen, asked for in this interval (1 s by default), until the wait is over. */
  positions(options?: { every?: number }): AsyncGenerator<number, void, void>
  granted(): Promise<Lease>
  leave(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export interface Holder {
  id: string
  slot: number
  slots: number
  token: number
  label: string
  owner: string
  remaining: number
  heldFor: number
  /** It is not renewed any more. */
  broken: boolean
  /** The holder has heard of the grant. */
  confirmed: boolean
}

export interface QueuedWaiter {
  id: string
  ticket: number
  label: string
  owner: string
  waited: number
  alive: boolean
  slots: number
}

export interface LockState {
  /** How many may hold the lock together now: the smallest number that a holder said. */
  slots?: number
  holders: Holder[]
  waiting: number
  queue: QueuedWaiter[]
  /** For how long nothing is granted at most, because the server lost data. */
  recoveringFor?: number
}

export interface Broken {
  outcome: 'told' | 'ended' | 'unknown'
  remaining?: number
}

export interface PastGrant {
  id: string
  token: number
  label: string
  owner: string
  waited: number
  held: number
  slot: number
  grantedAt: Date
  ended: 'released' | 'expired' | 'broken' | 'lost'
}

export interface History {
  recorded: boolean
  grants: PastGrant[]
}

/** All errors of fairlock. `code` is FAIRLOCK_ and the name of the class, as FAIRLOCK_LOCK_LOST; `cause` is what the system or the server said. */
export class FairlockError extends Error {
  readonly code: string
}
/** The turn did not come in time. The place in the queue was given up. */
export class TimeoutError extends FairlockError {
  readonly waited: number
  readonly position?: number
  /** How old the position is. */
  readonly positionAge?: number
}
/** As many waited as `maxWaiting` allows. */
export class QueueFullError extends FairlockError {
  readonly waiting: number
}
/** The lock was granted, but the event loop was blocked for a whole lease, so it was released. */
export class NotTakenError extends FairlockError {}
/** An operator broke the lease before it was handed out. */
export class LeaseBrokenError extends FairlockError {}
/** The lease is over, or about to be: stop using what the lock protects. */
export class LockLostError extends FairlockError {
  readonly lock: string
  readonly token: number
  readonly reason: 'not renewed' | 'ended' | 'broken' | 'maxHold' | 'closed' | 'released' | 'client failed'
}
/** No answer to the release came before the end of the lease. The client repeats the release. */
export class ReleaseUnknownError extends FairlockError {}
/** A name, a time, a URL or another option cannot work. */
export class InvalidOptionError extends FairlockError {}
/** The server cannot be used. */
export class ConnectionError extends FairlockError {}
/** The server denies the login. */
export class AuthenticationError extends ConnectionError {}
/** The server's user lacks a right that locks need. */
export class MissingRightError extends ConnectionError {}
/** The server gave no answer in time. Waiting may help. */
export class UnavailableError extends ConnectionError {}
/** The server refuses the request each time. */
export class RefusedError extends FairlockError {}
/** The client was closed. */
export class ClosedError extends FairlockError {}
