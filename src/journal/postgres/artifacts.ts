import type {
  ArtifactName,
  ArtifactRemoval,
  ArtifactRow,
  ArtifactStore,
  NewArtifact,
} from "../port/artifacts.ts"
import { SqlStore } from "./database.ts"

type Argument<Verb extends keyof ArtifactStore> = Parameters<ArtifactStore[Verb]>[0]

/** Artifacts on PostgreSQL. */
export class SqlArtifacts extends SqlStore implements ArtifactStore {
  async put(artifact: NewArtifact) {
    return (await this.first<ArtifactRow>("putArtifact", artifact))!
  }

  async claim(claim: Argument<"claim">) {
    const values = { ...claim, staleBefore: claim.staleBefore ?? claim.at }
    return (await this.database.query<{ hash: string }>("claimArtifacts", values)).map(({ hash }) => hash)
  }

  async read(name: ArtifactName) {
    return (await this.first<ArtifactRow>("readArtifact", name)) ?? null
  }

  async list({ after = "", ...query }: Argument<"list">) {
    const statement = query.jobId === undefined ? "listArtifacts" : "listJobArtifacts"
    return this.database.query<ArtifactRow>(statement, { ...query, after })
  }

  async usedBytes(owner: string) {
    return (await this.first<{ bytes: number }>("artifactBytes", { owner }))!.bytes
  }

  async remove(removal: Argument<"remove">) {
    return (await this.first<ArtifactRemoval>("removeArtifact", removal))!
  }

  async mark({ after, dryRun = false, ...marking }: Argument<"mark">) {
    const values = { owner: "", hash: "", ...after, ...marking, dryRun }
    const { marked, read, lastOwner, lastHash } = (await this.first<MarkedPage>("markArtifacts", values))!
    return { marked, next: read < marking.limit ? null : { owner: lastOwner!, hash: lastHash! } }
  }

  async marked(query: Argument<"marked">) {
    return this.database.query<ArtifactRow>("markedArtifacts", query)
  }

  async forget(row: Argument<"forget">) {
    await this.database.query("forgetArtifact", row)
  }

  async knownKeys(keys: readonly string[]) {
    return (await this.database.query<{ key: string }>("artifactKeys", { keys })).map(({ key }) => key)
  }
}

interface MarkedPage {
  readonly marked: readonly ArtifactRow[]
  readonly read: number
  readonly lastOwner: string | null
  readonly lastHash: string | null
}
