/** Umbra, as it is built, embedded in this process: on PostgreSQL, or on SQLite in a folder. */
import { join as path } from "node:path"
import { DatabaseSync } from "node:sqlite"
import pg from "pg"
import { defineHandler, openUmbra } from "../../dist/index.js"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"

export const packages = ["../.."]

const one = parents => Object.values(parents)[0]

const handlers = [
  defineHandler({ name: "add", run: (_, { input, parents }) => add(one(parents) ?? input.x) }),
  defineHandler({
    name: "item",
    run: (_, { input, parents, nodeId }) => item(one(parents) ?? input.x, Number(nodeId.slice(1))),
  }),
  defineHandler({ name: "join", run: (_, { parents }) => join(Object.values(parents)) }),
]

export async function open({ postgresUrl, folder, width, store }) {
  const location = store === "sqlite" ? path(folder, "umbra") : postgresUrl
  const umbra = await openUmbra(location, { handlers, worker: { concurrency: 1000 } })
  for (const definition of definitions(width)) await umbra.register(definition)
  const submit = (shape, x) => umbra.submit(shape, { x })
  const result = async job => {
    const { status, output, error } = await job.wait()
    if (status !== "COMPLETED") throw new Error(`a job is ${status}: ${JSON.stringify(error)}`)
    return output
  }
  const count = store === "sqlite" ? countInFile(path(location, "umbra.db")) : countInPostgres(postgresUrl)
  return {
    configuration: `one process, worker concurrency 1,000, ${store === "sqlite" ? "SQLite in a folder" : "PostgreSQL"}, defaults otherwise`,
    run: async (shape, x) => result(await submit(shape, x)),
    runAll(xs) {
      const accepted = umbra.submitMany(
        "single",
        xs.map(x => ({ x })),
      )
      return { accepted, results: accepted.then(all => Promise.all(all.map(({ job }) => result(job)))) }
    },
    recorded: async () => ({ steps: await count.query() }),
    async close() {
      await umbra.close()
      await count.close()
    },
  }
}

const COUNT = "select count(*) as steps from"

function countInPostgres(connectionString) {
  const pool = new pg.Pool({ connectionString, max: 1 })
  const query = async () =>
    Number((await pool.query(`${COUNT} umbra.journal where type = 'node_completed'`)).rows[0].steps)
  return { query, close: () => pool.end() }
}

function countInFile(file) {
  const database = new DatabaseSync(file, { readOnly: true })
  const statement = database.prepare(`${COUNT} journal where type = 'node_completed'`)
  return { query: async () => statement.get().steps, close: async () => database.close() }
}

function definitions(width) {
  const chain = numbers(CHAIN).map(k => node(`n${k}`, "add", k === 0 ? [] : [`n${k - 1}`]))
  const fan = numbers(FAN).map(k => node(`n${k}`, "item", ["first"]))
  const wide = numbers(width).map(k => node(`n${k}`, "item", []))
  return [
    workflow("single", [node("last", "add", [])]),
    workflow("chain", [...chain.slice(0, -1), { ...chain.at(-1), id: "last" }]),
    workflow("fan", [node("first", "add", []), ...fan, node("last", "join", ids(fan))]),
    workflow("wide", [...wide, node("last", "join", ids(wide))]),
  ]
}

const ids = nodes => nodes.map(({ id }) => id)
const node = (id, handler, dependencies) => ({ id, handler, dependencies })
const workflow = (name, nodes) => ({ name, nodes, output: "{{ last }}" })
