/** Problems lists what is wrong. Screen readers read a change. */
export function Problems({ lines }: { lines: string[] }) {
  return (
    <div role="status">
      <ul class="notice plain">
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </div>
  );
}
