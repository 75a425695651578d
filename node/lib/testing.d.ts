/// <reference lib="esnext.disposable" />

import type { Client, ClientOptions } from './index.js'

/** A lock service in the process: tests of programs that use locks need no Redis server. */
export class LockService implements AsyncDisposable {
  /** `redis://127.0.0.1:PORT/` */
  readonly url: string
  /** A client of this service, which ends with it. */
  client(options?: Omit<ClientOptions, 'url'>): Promise<Client>
  /** Answers nothing, as a server that hangs, until {@link resume}. */
  pause(): void
  resume(): void
  /** As by FLUSHALL. */
  loseData(): void
  /** Ends the lease of this lock at once. False if nobody holds it. */
  breakLease(name: string): boolean
  /** As if so much time had passed without a renewal: leases that would end have ended. */
  advance(by: number): void
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
