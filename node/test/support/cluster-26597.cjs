
      const { Client } = require('fairlock')
      const lock = new Client(process.argv[2]).lock('cluster')
      lock.run({ label: 'worker' }, async lease => process.send(lease.token)).then(() => process.disconnect())