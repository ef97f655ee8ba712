package background

import (
	"os"
	"strconv"
	"strings"
)

// killScore is added to the process's score, from -1000 to 1000, by which the kernel chooses a process
// to end for a shortage of memory.
const killScore = 500

// executable returns the file of this program. An upgrade may have replaced it by a newer one, whose
// child would not know this parent.
func executable() (string, error) {
	const own = "/proc/self/exe"
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	return os.Executable()
}

// expectKill makes this process the one that a shortage of memory ends, and gives it the program's name,
// which is "exe" after executable.
func expectKill() error {
	const file = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(min(score+killScore, 1000))), 0); err != nil {
		return err
	}
	return os.WriteFile("/proc/self/comm", []byte("tallygate"), 0)
}
