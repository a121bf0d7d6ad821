import { changeQuery } from "../shell/router.ts"

/** A choice among versions, kept in the address. */
export function VersionSelect({
  label,
  parameter,
  versions,
  value,
}: {
  label: string
  parameter: string
  versions: readonly number[]
  value: number
}) {
  return (
    <label className="vsel">
      <span className="dim">{label}</span>
      <select
        className="in"
        value={value}
        onChange={event => changeQuery({ [parameter]: event.target.value })}
      >
        {(versions.includes(value) ? versions : [value, ...versions]).map(version => (
          <option key={version} value={version}>
            v{version}
          </option>
        ))}
      </select>
    </label>
  )
}
