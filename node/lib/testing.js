'use strict'

// A lock service in the process: tests of programs that use locks need no Redis server.
const native = require('./native.js')
const { connect } = require('./client.js')
const { checked } = require('./errors.js')
const { value } = require('./options.js')

class LockService {
  #service = new native.LockService()
  #clients = []

  get url() {
    return this.#service.url
  }

  async client(options) {
    const client = await connect(this.url, options)
    this.#clients.push(client)
    return client
  }

  pause() {
    checked(this.#service.pause())
  }

  resume() {
    checked(this.#service.resume())
  }

  loseData() {
    checked(this.#service.loseData())
  }

  breakLease(name) {
    return checked(this.#service.breakLease(value('the name', 'text', name)))
  }

  advance(by) {
    checked(this.#service.advance(value('the time to advance by', 'time', by)))
  }

  async close() {
    await Promise.all(this.#clients.splice(0).map(client => client.close()))
    this.#service.end()
  }

  async [Symbol.asyncDispose]() {
    await this.close()
  }
}

module.exports = { LockService }
