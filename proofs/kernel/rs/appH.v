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

Section Noise.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (noise : unit_noise e n).
Lemma later mu a s t : forall j, (t <= j)%nat ->
  has e (fun o => velocity mu a s n t o * n j o) /\ ex e (fun o => velocity mu a s n t o * n j o) = 0.
Proof.
  destruct noise as (h1 & m1 & h2 & m2). induction t as [|t IH]; intros j l; cbn [velocity].
  - split; [apply (has_ext e (fun _ => 0)); [intro; ring | apply has_constant]|].
    rewrite (ex_ext e _ (fun _ => 0)) by (intro; ring). apply ex_constant.
  - destruct (IH j ltac:(lia)) as [a1 a2].
    assert (q : forall o, mu * (velocity mu a s n t o * n j o) + a * s * (n t o * n j o)
      = (mu * velocity mu a s n t o + a * (s * n t o)) * n j o) by (intro; ring).
    split.
    + apply (has_ext e _ _ q). apply has_linear; [exact a1 | apply h2].
    + rewrite <- (ex_ext e _ _ q). rewrite ex_linear by (try exact a1; apply h2). rewrite a2, m2.
      replace (t =? j)%nat with false by (symmetry; apply Nat.eqb_neq; lia). ring.
Qed.
Lemma squares mu a s t :
  has e (fun o => velocity mu a s n t o * velocity mu a s n t o) /\
  (1 - mu ^ 2) * ex e (fun o => velocity mu a s n t o * velocity mu a s n t o) = a ^ 2 * s ^ 2 * (1 - mu ^ (2 * t)).
Proof.
  induction t as [|t [IH1 IH2]].
  - cbn [velocity]. split; [apply (has_ext e (fun _ => 0)); [intro; ring | apply has_constant]|].
    rewrite (ex_ext e _ (fun _ => 0)) by (intro; ring). rewrite ex_constant. simpl. ring.
  - destruct (later mu a s t t ltac:(lia)) as [a1 a2]. destruct noise as (h1 & m1 & h2 & m2). cbn [velocity].
    set (v := velocity mu a s n t) in *.
    assert (q : forall o, 1 * (mu ^ 2 * (v o * v o) + 2 * mu * (a * s) * (v o * n t o)) + a ^ 2 * s ^ 2 * (n t o * n t o)
      = (mu * v o + a * (s * n t o)) * (mu * v o + a * (s * n t o))) by (intro; ring).
    assert (h3 : has e (fun o => mu ^ 2 * (v o * v o) + 2 * mu * (a * s) * (v o * n t o))) by (apply has_linear; assumption).
    split.
    + apply (has_ext e _ _ q). apply has_linear; [exact h3 | apply h2].
    + rewrite <- (ex_ext e _ _ q). rewrite ex_linear by (try exact h3; apply h2).
      rewrite ex_linear by assumption. rewrite a2, m2, Nat.eqb_refl.
      replace (2 * S t)%nat with (S (S (2 * t))) by lia. cbn [pow].
      replace ((1 - mu * (mu * 1)) * (1 * (mu * (mu * 1) * ex e (fun o => v o * v o) + 2 * mu * (a * s) * 0) + a * (a * 1) * (s * (s * 1)) * 1))
        with (mu ^ 2 * ((1 - mu ^ 2) * ex e (fun o => v o * v o)) + (1 - mu ^ 2) * a ^ 2 * s ^ 2) by ring.
      rewrite IH2. ring.
Qed.
End Noise.

Theorem correction_holds : correction.
Proof.
  intros O e n noise mu s t [a b] s0. unfold variance. destruct (squares O e n noise mu (1 - mu) s t) as [_ h].
  assert (0 < 1 - mu ^ 2) by nra. apply (Rmult_eq_reg_l (1 - mu ^ 2)); [|lra]. rewrite h. field; lra.
Qed.
(* mu = 1/2, two steps: the variance is 5/16, printed 9/16 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & noise & claim). specialize (claim (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)).
  rewrite (correction_holds O e n noise (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)) in claim. simpl in claim. lra.
Qed.
