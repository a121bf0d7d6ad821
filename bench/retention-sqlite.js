/** Reads the figures of a folder in a thread (see retention-store.ts). */
import { parentPort } from "node:worker_threads"
import { register } from "tsx/esm/api"

register()
const { openDatabase } = await import("../src/journal/sqlite/driver.ts")

const TABLES = ["jobs", "journal", "executions", "pipeline_messages", "pipeline_lineage", "pipeline_parked"]

parentPort.on("message", ({ file, before }) => {
  const database = openDatabase(file, { readOnly: true })
  const count = (from, ...values) =>
    Number(database.prepare(`select count(*) as n from ${from}`).get(...values).n)
  try {
    database.exec("pragma busy_timeout = 5000")
    const bytes = database.prepare("select name, sum(pgsize) as bytes from dbstat group by name").all()
    parentPort.postMessage({
      rows: TABLES.reduce((total, table) => total + count(table), 0),
      backlog: count("jobs where finished_at < ?", before),
      bytes: bytes.map(({ name, bytes: size }) => [name, Number(size)]),
    })
  } finally {
    database.close()
  }
})
