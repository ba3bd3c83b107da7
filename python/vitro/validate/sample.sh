#!/bin/sh
# sample.sh FILE: writes what Linux shows of battery, clocks and heat to FILE as JSON lines, until it is killed. POSIX sh and sleep alone.
# SYS (/sys) and PROC (/proc) are where to look, INTERVAL (0.2) is the pause between two samples in seconds. Times are those of
# PROC/uptime, in seconds. Values are as the files have them; what is no whole number is left out. Clocks and heat come with each fifth.
SYS=${SYS:-/sys} PROC=${PROC:-/proc} INTERVAL=${INTERVAL:-0.2}
exec > "$1" 2> /dev/null
sleep 0.01 || INTERVAL=1  # a sleep that takes whole seconds alone

number() { # FILE: its number in $value
  value=
  read -r value < "$1" || [ -n "$value" ] || return 1
  case $value in '' | - | *[!0-9-]* | ?*-*) return 1 ;; esac
}
word() { # FILE: its word in $value, if JSON can have it as it is
  value=
  read -r value < "$1" || [ -n "$value" ] || return 1
  case $value in '' | *[!A-Za-z0-9_.\ -]*) return 1 ;; esac
}
add() { text="$text${text:+,}$1"; }

battery=
others=
for supply in "$SYS"/class/power_supply/*; do
  word "$supply/type" || continue
  if [ "$value" = Battery ]; then battery=${battery:-$supply}; else others="$others $supply"; fi
done
numbers="current_now current_avg voltage_now power_now charge_counter charge_now energy_now temp capacity"

text= missing=
for name in $numbers; do
  number "$battery/$name" && [ -n "$battery" ] && add "\"$name\"" || missing="$missing${missing:+,}\"$name\""
done
echo "{\"vitro_samples\":1,\"interval_s\":$INTERVAL,\"battery\":\"${battery##*/}\",\"has\":[$text],\"missing\":[$missing]}"

turn=0
while :; do
  read -r now rest < "$PROC/uptime" || exit 1
  text=
  if [ -n "$battery" ]; then
    for name in $numbers; do number "$battery/$name" && add "\"$name\":$value"; done
    word "$battery/status" && add "\"status\":\"$value\""
  fi
  for supply in $others; do number "$supply/online" && [ "$value" != 0 ] && add "\"online\":\"${supply##*/}\""; done
  line="{\"t\":$now,\"battery\":{$text}"
  if [ $((turn % 5)) = 0 ]; then
    text=
    for cpu in "$SYS"/devices/system/cpu/cpu[0-9]*; do
      number "$cpu/cpufreq/scaling_cur_freq" && add "\"${cpu##*/}\":$value"
    done
    line="$line,\"khz\":{$text}"
    text=
    for zone in "$SYS"/class/thermal/thermal_zone*; do
      number "$zone/temp" || continue
      degrees=$value
      word "$zone/type" || value=${zone##*/}
      add "\"$value\":$degrees"
    done
    line="$line,\"millidegrees\":{$text}"
  fi
  echo "$line}"
  turn=$((turn + 1))
  sleep "$INTERVAL"
done
