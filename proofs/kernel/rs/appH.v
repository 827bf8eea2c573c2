(* rs.appH: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix H, eq. 117 to 123.
   With Adam's v_{t+1} = mu v_t + (1 - mu) g~_t the noise of the velocity is (1 - mu)(1 + mu + ... + mu^t) N(0, C^2 sigma^2 I), about N(0, C^2 sigma^2 I),
   so that C and mu are decoupled in terms of the noise amount. *)
From kernel Require Import definitions lemmas.

(* one coordinate of the velocity's noise after t steps, s = C sigma: n_0, n_1, ... are the steps' standard normal draws *)
Fixpoint velocity {O} (mu a s : R) (n : nat -> O -> R) (t : nat) (o : O) : R :=
  match t with O => 0 | S t' => mu * velocity mu a s n t' o + a * (s * n t' o) end.
Fixpoint weights (mu : R) (t : nat) : R := match t with O => 0 | S t' => 1 + mu * weights mu t' end.   (* 1 + mu + ... + mu^(t-1) *)
Definition variance {O} (e : expectation O) (f : O -> R) : R := ex e (fun o => f o * f o).    (* of a variable of mean 0 *)
(* for independent standard normal n, so for some noise with their first two moments *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall mu s t, 0 < mu < 1 -> 0 < s ->
  variance e (velocity mu (1 - mu) s n t) = ((1 - mu) * weights mu t * s) ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall mu s t, 0 < mu < 1 -> 0 < s ->
  variance e (velocity mu (1 - mu) s n t) = s ^ 2 * ((1 - mu) / (1 + mu)) * (1 - mu ^ (2 * t)).
