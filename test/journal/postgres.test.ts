import { openPostgres } from "../../src/journal/postgres/open.ts"
import { freshDatabase } from "../support/services.ts"
import { journalContract } from "./contract.ts"

journalContract("PostgreSQL", async () => {
  const database = await freshDatabase()
  const [journal, peer] = await Promise.all([openPostgres(database.url), openPostgres(database.url)])
  const close = async () => {
    await Promise.all([journal.close(), peer.close()])
    await database.drop()
  }
  return { journal, peer, close }
})
