// A web service in which one report is made at a time, over all processes: others wait for a moment, in turn, and then
// hear 503. Whoever hangs up leaves the queue at once.
import { createServer } from 'node:http'
import { Client, QueueFullError, TimeoutError } from 'fairlock'

// It connects when it is first used: the service starts though Redis is away.
const client = Client.fromEnv()
const lock = client.lock('reports', { maxWaiting: 100 })

async function handle(request, response) {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  try {
    await using lease = await lock.acquire({ timeout: Number(process.env.PATIENCE ?? 800), signal: gone.signal })
    response.end(await report(lease))
  } catch (error) {
    if (gone.signal.aborted) return
    const busy = error instanceof TimeoutError || error instanceof QueueFullError
    if (!busy) console.error(error)
    response.writeHead(busy ? 503 : 500, { 'Retry-After': '1' }).end(busy ? error.message : '')
  }
}

async function report(lease) {
  await new Promise(resolve => setTimeout(resolve, Number(process.env.WORK ?? 300)))
  lease.check()
  return `report ${lease.token}\n`
}

const server = createServer(handle).listen(Number(process.env.PORT ?? 8080), () => console.log(server.address().port))
process.once('SIGTERM', () => server.close())
